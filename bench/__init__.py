"""`./run bench`: speed, as ratios against floors measured in the same run. README.md says what is measured and how."""


def main(words: list[str]) -> None:
    from bench.rounds import run

    run(words)
