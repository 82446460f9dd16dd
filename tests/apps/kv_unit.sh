#!/usr/bin/env bash
# The systemd unit of cordma-kv: kv_unit.sh PROGRAMS UNIT SYSUSERS. It runs as a user that
# systemd-sysusers creates. The test does not run systemd: it reads the files, with systemd's own
# tools where they are installed.
. "$(dirname "$0")/expect.sh"
unit=$2
sysusers=$3
cd "$work"

said() { sed -n "s/^$1=//p" "$unit"; }

echo '== its user and its group are made, under one name'
user=$(said User)
[ -n "$user" ] || fail 'it has no user'
[ "$(said Group)" = "$user" ] || fail "its group is $(said Group), and $user a user with another"
grep -Eq "^u $user -( |$)" "$sysusers" || fail "nothing makes the user $user"
! grep -q '^g ' "$sysusers" || fail 'a group is made alone, though u makes a group as well'
! grep -q '^DynamicUser=yes' "$unit" || fail 'a dynamic user cannot have the name of a group that is there'
if command -v systemd-sysusers > /dev/null; then
  mkdir etc
  : > etc/passwd
  : > etc/group
  if systemd-sysusers --root="$work" "$sysusers" > said 2>&1; then
    grep -q "^$user:" etc/passwd || fail "systemd-sysusers made: $(cat etc/passwd)"
    grep -q "^$user:" etc/group || fail "systemd-sysusers made: $(cat etc/group)"
  else
    echo "systemd-sysusers cannot be tried: $(cat said)"
  fi
fi

echo '== it has what a dynamic user would imply'
for setting in NoNewPrivileges=yes RestrictSUIDSGID=yes RemoveIPC=yes PrivateTmp=yes ProtectSystem=strict ProtectHome=yes; do
  grep -qx "$setting" "$unit" || fail "it does not say $setting"
done

echo '== systemd reads all of it'
if command -v systemd-analyze > /dev/null; then
  sed "s|^ExecStart=.*|ExecStart=$programs/cordma-kv|" "$unit" > cordma-kv.service
  if systemd-analyze verify --man=no "$work/cordma-kv.service" > said 2>&1; then
    ! grep -q 'cordma-kv.service:.*\(Unknown\|Failed to parse\|ignoring\)' said || fail "$(cat said)"
  else
    echo "systemd-analyze cannot be tried: $(cat said)"
  fi
fi
