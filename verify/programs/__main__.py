"""``python -m gtape.verify.programs``: the campaign over random programs."""

from __future__ import annotations

from gtape.verify.programs.false_alarms import main

raise SystemExit(main())
