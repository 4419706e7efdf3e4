#include "internal.h"

#include <sys/prctl.h>

int
ccrypto_refuse_dumps(void)
{

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return (CCRYPTO_ERROR_LIBRARY);
	return (CCRYPTO_OK);
}
