"""The controller: manages the cluster through metadata records.  Pure: no file access, no clock."""
