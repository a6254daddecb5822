# Makes the login `ops` that the environment describes (LOGIN_UID, LOGIN_SHELL, AUTHORIZED_KEY), then serves it.
set -e
ssh-keygen -A >/dev/null
echo "ops:x:$LOGIN_UID:$LOGIN_UID::/home/ops:$LOGIN_SHELL" >>/etc/passwd
echo "ops:x:$LOGIN_UID:" >>/etc/group
echo "ops:*:19000:0:99999:7:::" >>/etc/shadow
mkdir -p /run/sshd /home/ops/.ssh
printf '%s\n' "$AUTHORIZED_KEY" >/home/ops/.ssh/authorized_keys
chown -R "$LOGIN_UID:$LOGIN_UID" /home/ops
chmod 700 /home/ops/.ssh
chmod 600 /home/ops/.ssh/authorized_keys
exec /usr/sbin/sshd -D -e -f /sshd.conf
