"""The referee: derivatives of other libraries, judged by exact ones."""
