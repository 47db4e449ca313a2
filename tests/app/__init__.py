"""The app of the tests: its jobs and models stand for those of a project."""
