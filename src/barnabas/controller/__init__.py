"""The controller: decides about the cluster in metadata records.  Pure: it touches no file and no clock."""
