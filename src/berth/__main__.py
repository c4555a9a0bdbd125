"""`python -m berth` is `berth`."""

from berth.cli.main import main

if __name__ == "__main__":
    main()
