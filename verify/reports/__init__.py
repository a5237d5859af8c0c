"""Reports of any result: JSON Lines, JUnit, SARIF, Markdown, HTML. Each holds the whole result as data, too."""
