"""One file per figure or table; each writes ``results.json`` and draws from it."""
