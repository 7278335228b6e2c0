"""The controller: resvals, static replication, pools, answers."""
