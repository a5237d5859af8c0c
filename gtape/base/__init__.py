"""What every other room uses: layouts, shapes, settings, messages, locks. Nothing here knows of tensors or tapes."""
