"""Files: the Disk interface, on a folder and in memory."""
