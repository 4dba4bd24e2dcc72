/* Holds a pod's namespaces, as the pause program of Kubernetes does: it ends on SIGINT and SIGTERM, reaps, and waits. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void down(int sig) { (void)sig; _exit(0); }
static void reap(int sig) { (void)sig; while (waitpid(-1, NULL, WNOHANG) > 0) ; }

int main(void)
{
	struct sigaction end = {.sa_handler = down}, child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
	if (sigaction(SIGINT, &end, NULL) < 0 || sigaction(SIGTERM, &end, NULL) < 0 || sigaction(SIGCHLD, &child, NULL) < 0)
		return 1;
	for (;;)
		pause();
}
