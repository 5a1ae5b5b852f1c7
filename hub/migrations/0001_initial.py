"""The first tables of the index [architecture: where the truth lives]."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="IndexState",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False),
                ),
                ("checked_at", models.DateTimeField(null=True)),
                ("reached_at", models.DateTimeField(null=True)),
                ("hub_pk", models.CharField(blank=True, max_length=64)),
                ("hub_id", models.CharField(blank=True, max_length=64)),
                ("problem", models.CharField(blank=True, max_length=300)),
            ],
            options={
                "verbose_name_plural": "index state",
            },
        ),
        migrations.CreateModel(
            name="LabelHead",
            fields=[
                ("label", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("stream_name", models.CharField(blank=True, max_length=128, null=True)),
                ("upto_seq", models.PositiveBigIntegerField()),
                ("root", models.CharField(max_length=64)),
                ("hub_ts", models.PositiveBigIntegerField()),
                ("checkpoint_seq", models.PositiveBigIntegerField()),
                ("checkpoint_manifest", models.CharField(max_length=64)),
                ("updated", models.DateTimeField(db_index=True)),
                ("checked", models.DateTimeField(db_index=True)),
            ],
            options={
                "verbose_name": "label head",
                "ordering": ["label"],
            },
        ),
        migrations.CreateModel(
            name="ManifestRow",
            fields=[
                ("manifest_id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("previous", models.CharField(max_length=64)),
                ("hub_pk", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("labels", models.PositiveIntegerField()),
                ("messages", models.PositiveBigIntegerField()),
                ("verified", models.BooleanField(default=False)),
            ],
            options={
                "verbose_name": "manifest",
                "ordering": ["-created_at", "-messages"],
            },
        ),
        migrations.CreateModel(
            name="Finding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("code", models.CharField(max_length=32)),
                (
                    "severity",
                    models.CharField(
                        choices=[("critical", "Critical"), ("warning", "Warning")], max_length=16
                    ),
                ),
                ("object", models.CharField(max_length=200)),
                ("detail", models.TextField(blank=True)),
                ("first_seen", models.DateTimeField()),
                ("last_seen", models.DateTimeField()),
                ("acknowledged_by", models.CharField(blank=True, max_length=150)),
                ("reason", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-last_seen"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("code", "object"), name="one_finding_per_object"
                    )
                ],
            },
        ),
    ]
