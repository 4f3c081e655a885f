# examples/suspend.sh: the whole contract, as a shell script
work=0
small() {
  # free the memory of the GPU here
  : > "$COMB_SUSPEND_FILE"
  while [ -e "$COMB_SUSPEND_FILE" ]; do sleep 0.1; done
  # take it again here
}
stop() {
  # save a checkpoint here; the memory of the GPU may be free already
  exit 1
}
trap small USR1
trap stop TERM       # also while it waits for the file to go
while [ $work -lt "${STEPS:-1000}" ]; do
  sleep 0.1            # one mini-batch
  work=$((work + 1))
done
echo "did $work"
