//! Scenarios, the clusters that run them, and what users see of them.
