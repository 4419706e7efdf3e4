#include "chttpclient.h"
