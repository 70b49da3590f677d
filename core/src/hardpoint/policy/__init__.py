"""May this call run? One module each for the limits, rules, approvals, grants and budgets."""
