#include "chttpserver.h"
