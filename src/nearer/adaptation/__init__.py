"""From a pile of one's own documents to a search that is better on them."""
