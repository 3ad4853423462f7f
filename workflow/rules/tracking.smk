# MLflow beside the workflow, not in it: no run waits for it, and without it `fedshift track` publishes later.


def follow():
    """Start a follower of the plan that FEDSHIFT_PLAN names. It waits for the one before it, if that has runs left."""
    if workflow.is_main_process and os.environ.get("FEDSHIFT_TRACK") != "0":
        os.makedirs("logs", exist_ok=True)
        with open("logs/track.log", "a") as log_file:
            subprocess.Popen(
                [sys.executable, "-m", "fedshift", "track", "--follow", "--beside", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
            )
