"""What the routes give and take: one file for each kind of resource."""
