"""Rules beyond the native fields: annotations for execution-time rules, and limits on anti-affinity."""
