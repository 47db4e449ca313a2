"""Orders of several merchants, and the jobs that follow an order."""
