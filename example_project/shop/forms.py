"""The form of an order."""

from __future__ import annotations

from typing import Any

from django import forms

from .models import Merchant, Product


class OrderForm(forms.Form):
    """A customer, and how many he wants of each product of a merchant."""

    name = forms.CharField(max_length=100)
    email = forms.EmailField()
    city = forms.CharField(max_length=100)
    country = forms.RegexField("^[A-Z]{2}$", help_text="Two letters, such as DE.")

    def __init__(self, *args: Any, merchant: Merchant, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.products = {product.sku: product for product in merchant.products.all()}
        for product in self.products.values():
            self.fields[product.sku] = forms.IntegerField(
                label=f"{product.name}, {product.price} €",
                min_value=0,
                max_value=100,
                required=False,
                initial=0,
            )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not any(cleaned.get(sku) for sku in self.products):
            raise forms.ValidationError("Choose at least one product.")
        return cleaned

    @property
    def basket(self) -> dict[Product, int]:
        """What was chosen. Only of a valid form."""
        chosen = {p: self.cleaned_data.get(sku) for sku, p in self.products.items()}
        return {product: quantity for product, quantity in chosen.items() if quantity}
