set -e
ssh-keygen -A >/dev/null
install -d -m 700 -o ops -g ops /home/ops/.ssh
printf '%s\n' "$AUTHORIZED_KEY" >/home/ops/.ssh/authorized_keys
chown ops:ops /home/ops/.ssh/authorized_keys
chmod 600 /home/ops/.ssh/authorized_keys
exec /usr/sbin/sshd -D -e
