"""A record becomes tokens: chat template to text, text to ids, and which ids carry loss. No torch here."""
