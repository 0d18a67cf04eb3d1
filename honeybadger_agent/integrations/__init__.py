"""What other people's frameworks need, one family of files each: Anthropic's memory tool."""
