"""Everything that lasts goes to the disk through here: whole, synced, with a checksum, and by one writer at a time."""
