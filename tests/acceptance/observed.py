"""Time that passes when it is waited for, and what engines would answer then."""

from __future__ import annotations

import itertools

#: 2026-11-30 14:00:00 UTC.
START = 1_796_047_200.0


class Clock:
    """Counts what is waited for; `then` is called after each wait with the number of waits."""

    def __init__(self, then=lambda _number: None, most=2000):
        self.passed, self.waits, self._then, self._most = 0.0, [], then, most

    def now(self):
        return self.passed

    def wall(self):
        return START + self.passed

    def wait(self, seconds):
        assert len(self.waits) < self._most, "this never ends"
        self.waits.append(seconds)
        self.passed += seconds
        self._then(len(self.waits))


class VLLM:
    """Counters of one vLLM, which grow."""

    def __init__(self, *cores):
        self.counts = {core: [0, 0, [0, 0, 0]] for core in cores or ("0",)}

    def run(self, length, steps=100, core="0"):
        """Verify some steps, of 3 drafted tokens each; the text of its metrics then."""
        counts = self.counts[core]
        accepted = round((length - 1) * steps)
        counts[0] += steps
        counts[1] += accepted
        for position in range(3):
            counts[2][position] += accepted // 3
        return self.text()

    def text(self):
        lines = ["# TYPE vllm:spec_decode_num_drafts counter", "process_open_fds 12", "vllm:num_requests_running 1.0"]
        for core, (drafts, accepted, places) in self.counts.items():
            labels = f'engine="{core}",model_name="m"'
            lines.append(f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}")
            lines.append(f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {3 * drafts}")
            lines.append(f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {accepted}")
            lines += [
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{at}"}} {count}'
                for at, count in enumerate(places)
            ]
        return "\n".join(lines) + "\n"


def decode_line(second, length, rank=""):
    """A line of SGLang's log, so many seconds after 14:00."""
    clock = f"{14 + second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}"
    return (
        f"[2026-11-30 {clock}{rank} TP0] Decode batch, #running-req: 4, #token: 1000, token usage: 0.10, "
        f"accept len: {length:.2f}, accept rate: 0.60, cuda graph: True, gen throughput (token/s): 9.0, #queue-req: 0\n"
    )


def start_line(steps=3, model="meta/target"):
    """The line in which SGLang's log states its arguments."""
    return (
        f"[2026-11-30 13:59:00] server_args=ServerArgs(model_path='{model}', dtype='auto', "
        f"speculative_algorithm='EAGLE3', speculative_num_steps={steps}, speculative_eagle_topk=1, "
        f"speculative_num_draft_tokens={steps + 1}, speculative_draft_model_path='/drafter')\n"
    )


#: What SGLang says of itself.
INFO = {
    "version": "0.5.23",
    "model_path": "meta/target",
    "dtype": "bfloat16",
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "speculative_draft_model_path": "/nowhere/drafter",
    "internal_states": [{}],
}


def counted(series):
    """SGLang's counters after each of some lengths: one text per scrape, of 200 steps and one request each."""
    steps = tokens = 0
    texts = []
    for number, length in enumerate(itertools.chain([0], series)):
        if number:
            steps += 200
            tokens += round(200 * length) + 1
        texts.append(
            f'sglang:spec_verify_calls_total{{model_name="m"}} {steps}\n'
            f'sglang:generation_tokens_total{{model_name="m"}} {tokens}\n'
            f'sglang:num_requests_total{{model_name="m"}} {number}\n'
        )
    return texts
