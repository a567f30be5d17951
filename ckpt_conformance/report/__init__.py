"""The data model of a run and its JSON schema; renderers turn it into text, HTML, SARIF, a GitHub summary."""
