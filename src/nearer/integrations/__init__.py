"""What `nearer` offers to other libraries, one file each. Nothing else here stands on them."""
