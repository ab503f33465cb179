"""What an application can be asked for: operations as values, the groups that name them, and what goes in and out."""
