"""Ready-made tasks."""

from ucsearch.tasks.inventory import LeadTimeInventory

__all__ = ["LeadTimeInventory"]
