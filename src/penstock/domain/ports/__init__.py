"""What penstock asks of a store and of a queue, one file for each reader."""
