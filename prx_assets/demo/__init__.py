"""The demo: real photographs, planted problems, and the fate each picture must meet."""
