"""`format("mqcore-store")`: a store directory read in parallel, without a broker."""
