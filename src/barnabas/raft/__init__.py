"""The quorum that keeps the metadata log: elections, voters, snapshots.  No files, no time, no network."""
