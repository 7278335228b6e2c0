#!/bin/bash
# Installs dynres as the README says and takes both units through a life under a real systemd.
#
# Runs inside tests/tools/systemd-sandbox: in_sandbox.sh VENV REPOSITORY. Each line on stdout is a
# fact that the test checks; what goes wrong is on stderr, with the units' logs.
set -euo pipefail
venv=$1 repository=$2
dynres=/opt/dynres/bin/dynres

trap 'code=$?; ((code == 0)) || journalctl --no-pager -o cat -u "dynres-*" >&2; exit $code' EXIT

fact() { echo "$1=$2"; }
until_true() { # WHAT COMMAND...: asks again until it holds, for 20 s at most
  local what=$1 end=$((SECONDS + 20))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "not within 20 s: $what" >&2; return 1; }
    sleep 0.1
  done
}
value_is() { [[ $("$dynres" values --json | jsonpath "$1") == "$2" ]]; }
jsonpath() { "$venv/bin/python" -I -c '
import json, sys
values = next(iter(json.load(sys.stdin)["hosts"].values()))["values"]
print(values.get(sys.argv[1], {}).get("value"))' "$1"; }

# The service user must reach what lies in root's home; in here that changes nothing outside.
reachable() {
  local path
  path=$(readlink -f "$1")
  while [[ $path != / ]]; do chmod o+x "$path" 2>/dev/null || true; path=$(dirname "$path"); done
}
reachable "$venv/bin/python"
reachable "$repository/agent"
ln -s "$venv" /opt/dynres
install -m 644 systemd/dynres.sysusers.conf /usr/lib/sysusers.d/dynres.conf
systemd-sysusers
install -m 644 systemd/dynres-{agent,controller}.service /etc/systemd/system/
case $(readlink -f "$venv/bin/python") in /root/*|/home/*) home=1 ;; esac
case $repository in /root/*|/home/*) home=1 ;; /tmp/*|/var/tmp/*) tmp=1 ;; esac
mkdir -p /etc/systemd/system/dynres-controller.service.d
{
  echo '[Service]'
  [[ -z ${home:-} ]] || echo ProtectHome=no
  [[ -z ${tmp:-} ]] || echo PrivateTmp=no
} >/etc/systemd/system/dynres-controller.service.d/test.conf

mkdir -p /etc/dynres
write() { cat >/etc/dynres/resources.yaml; }
write <<'YAML'
resources:
  - name: who
    type: string
    interval: 1s
    probe: {command: [/usr/bin/id, -un]}
    resourcemap: [{location: [default]}]
YAML

systemctl daemon-reload
systemctl start dynres-controller dynres-agent
fact started "$(systemctl is-active dynres-controller dynres-agent | xargs)"
until_true "a value of the probe" value_is who dynres
fact probe_user "$("$dynres" values --json | jsonpath who)"
fact status "$(systemctl show -P StatusText dynres-agent | grep -c .)"
fact state_owner "$(stat -c %U /var/lib/dynres)"
fact local_status "$(runuser -u nobody -- true; "$dynres" status >/dev/null && echo ok)"

write <<'YAML'
resources:
  - name: who
    type: string
    interval: 1s
    probe: {command: [/usr/bin/id, -un]}
    resourcemap: [{location: [default]}]
  - name: answer
    resourcemap: [{value: 42, location: [default]}]
YAML
systemctl reload dynres-controller dynres-agent
until_true "the new resource" value_is answer 42
fact reloaded "$("$dynres" values --json | jsonpath answer)"

echo 'resources: [{name: broken, intervall: 5s}]' | write
fact refused_agent "$(systemctl reload dynres-agent 2>/dev/null && echo no || echo yes)"
fact refused_controller "$(systemctl reload dynres-controller 2>/dev/null && echo no || echo yes)"
fact after_refusal "$(systemctl is-active dynres-controller dynres-agent | xargs)"
fact kept "$("$dynres" values --json | jsonpath answer)"
echo 'resources: [{name: answer, resourcemap: [{value: 42, location: [default]}]}]' | write

first=$(systemctl show -P MainPID dynres-agent)
restarted() { local now; now=$(systemctl show -P MainPID dynres-agent); [[ $now != 0 && $now != "$first" ]] && systemctl -q is-active dynres-agent; }
kill -KILL "$first"
until_true "the agent's restart" restarted
fact restarts "$(systemctl show -P NRestarts dynres-agent)"

# Hangups from the unit's own first instruction on: each is a reload, none an end.
systemctl stop dynres-agent
systemctl start --no-block dynres-agent
main=0
until [[ $main != 0 ]]; do main=$(systemctl show -P MainPID dynres-agent); done
until grep -q '^Sig\(Ign\|Cgt\):.*[13579bdf]$' "/proc/$main/status"; do :; done
until systemctl -q is-active dynres-agent; do
  for _ in $(seq 20); do kill -HUP "$main"; done
done
is_ready() { [[ $(systemctl is-active dynres-agent) == active ]]; } # and not "reloading"
until_true "the end of the reloads" is_ready
fact hung_up "$(systemctl is-active dynres-agent),$(systemctl show -P NRestarts dynres-agent)"
fact same_process "$([[ $(systemctl show -P MainPID dynres-agent) == "$main" ]] && echo yes)"

systemctl stop dynres-agent dynres-controller
fact stopped "$(systemctl is-active dynres-controller dynres-agent | xargs)"
fact results "$(systemctl show -P Result dynres-controller dynres-agent | xargs)"
fact left_processes "$(pgrep -u dynres -c || true)"
fact left_runtime "$(ls -d /run/dynres 2>/dev/null | wc -l)"

echo 'resources: [{name: broken, intervall: 5s}]' | write
systemctl start dynres-agent 2>/dev/null || true
fact bad_file "$(systemctl show -P Result dynres-agent),$(systemctl show -P NRestarts dynres-agent)"
fact bad_file_says "$(journalctl --no-pager -o cat -u dynres-agent | grep -c 'resources.yaml:1:28')"
