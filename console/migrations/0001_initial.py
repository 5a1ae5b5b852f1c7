"""The table of failed logins [experience 2.1]."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="LoginFailure",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name_hash", models.CharField(max_length=64)),
                ("address", models.GenericIPAddressField()),
                ("at", models.DateTimeField(db_index=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["name_hash", "at"], name="console_log_name_ha_afd0c6_idx")
                ],
            },
        ),
    ]
