#!/bin/sh
# Writes the broker's password file from the secrets, anew at every start: a changed secret is a changed password.
set -eu
secrets="${1:-/run/secrets}"
target="${2:-/mosquitto/data/passwd}"
umask 077
printf 'live:%s\n' "$(cat "$secrets/mqtt_live_password")" > "$target.new"
cat "$secrets/mqtt_machines" >> "$target.new"
mosquitto_passwd -U "$target.new"
mv "$target.new" "$target"
