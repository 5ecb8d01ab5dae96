"""Files: the Disk interface, on directories and in memory."""
