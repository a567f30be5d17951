"""The renderers of a leak report: one HTML page, JSON with its schema, SARIF, JUnit, Markdown, a picture."""
