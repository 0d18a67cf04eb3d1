"""What is remembered: the journal, its projections, and the pure rules of text, budget and context."""
