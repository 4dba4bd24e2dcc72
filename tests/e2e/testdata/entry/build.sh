#!/bin/sh
# What the images' own recipes prepare for their entry points, in one image: directories, their owners, and configuration.
set -e
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install /debs/*.deb >/dev/null
rm -rf /debs /usr/sbin/policy-rc.d /var/lib/rabbitmq/mnesia /var/lib/rabbitmq/.erlang.cookie
chmod 777 /var/lib/rabbitmq /var/log/rabbitmq
install -d -o postgres -g postgres -m 1777 /var/lib/postgresql/data
install -d -o postgres -g postgres -m 3777 /var/run/postgresql
install -d -o mysql -g mysql -m 1777 /var/lib/mysql /run/mysqld
install -d -o redis -g redis /data
install -d /srv/www /var/cache/nginx /usr/local/apache2/logs
echo served >/srv/www/f
cat >/etc/nginx/nginx.conf <<'C'
user www-data;
worker_processes 2;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events {}
http {
	access_log /dev/stdout;
	sendfile on;
	client_body_temp_path /var/cache/nginx/client_temp;
	proxy_temp_path /var/cache/nginx/proxy_temp;
	fastcgi_temp_path /var/cache/nginx/fastcgi_temp;
	uwsgi_temp_path /var/cache/nginx/uwsgi_temp;
	scgi_temp_path /var/cache/nginx/scgi_temp;
	server {
		listen 80;
		root /srv/www;
	}
}
C
cat >/usr/local/apache2/httpd.conf <<'C'
ServerRoot /usr/local/apache2
ServerName localhost
Listen 80
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
PidFile logs/httpd.pid
ErrorLog /proc/self/fd/2
DocumentRoot /srv/www
C
rm -f /etc/mysql/mariadb.conf.d/50-server.cnf
chmod 755 /usr/local/bin/entry-*
