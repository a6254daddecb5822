"""The Rust daemon's cuzk.toml: recognised by the keys that only it has, and explained key by key, never half-obeyed."""

from __future__ import annotations

from typing import Any

# What only cuzk.toml has -> what it is here.
KEYS = {
    "daemon.status_listen": "daemon.listen serves /status too",
    "memory.total_budget": "memory.budget",
    "memory.safety_margin": 'memory.budget = "auto" leaves a fifth free',
    "memory.eviction_min_idle": "memory.evict_idle_s, in seconds",
    "memory.pinned_budget": "memory.budget, which counts everything",
    "memory.working_memory_budget": "memory.budget, which counts everything",
    "gpus.devices": "gpus.backend",
    "gpus.gpu_threads": "synthesis.threads",
    "gpus.gpu_workers_per_device": "gpus.workers",
    "scheduler.max_batch_size": "not needed: jobs are not batched",
    "scheduler.max_batch_wait_ms": "not needed: jobs are not batched",
    "scheduler.sort_by_type": "not needed: jobs have priorities",
    "synthesis.partition_workers": "not needed: memory.budget bounds it",
    "pipeline.enabled": "not needed: stages always overlap",
    "pipeline.synthesis_lookahead": "pipeline.lookahead",
    "pipeline.synthesis_concurrency": "synthesis.threads",
    "pipeline.max_parallel_synthesis": "pipeline.lookahead",
    "pipeline.slot_size": "not needed",
    "pipeline.max_gpu_queue_depth": "pipeline.lookahead",
    "srs.param_cache": "one [[circuits]] section a proving key, with its path",
    "srs.preload": "not needed: every circuit that fits is loaded at start",
    "logging.format": "not needed: the timing log has one format",
}


def explain(table: dict[str, Any]) -> str | None:
    """Say what each of its keys is here; None where the document is not a cuzk.toml."""
    found = [
        f"{section}.{key}"
        for section, content in table.items()
        if isinstance(content, dict)
        for key in content
        if f"{section}.{key}" in KEYS
    ]
    if not found and not {"srs", "scheduler"} & set(table):
        return None
    return "; ".join(f"{key}: {KEYS[key]}" for key in found) or "none of its keys means anything"
