"""The hub: orders, signs and proves messages it cannot read [SSOT 0]."""
