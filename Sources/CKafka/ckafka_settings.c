#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckafka_internal.h"

/* What the library knows of settings, for a message that names the nearest one. */

int ckafka_knows_setting(const char *name)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char message[300];
    /* Without a value a setting is put back to its default; a name is judged before that. */
    int is_known = rd_kafka_conf_set(conf, name, NULL, message, sizeof message) !=
                   RD_KAFKA_CONF_UNKNOWN;
    rd_kafka_conf_destroy(conf);
    return is_known;
}

/* The library has its names only as a table to print: `name | C/P | range | …`. */
char *ckafka_setting_names(void)
{
    char *table = NULL;
    size_t size = 0;
    FILE *printed = open_memstream(&table, &size);
    if (!printed)
        return NULL;
    rd_kafka_conf_properties_show(printed);
    if (fclose(printed) != 0) {
        free(table);
        return NULL;
    }
    /* The names are moved to the front of the table itself: each is shorter than its line. */
    char *end = table;
    char *rest = NULL;
    for (char *line = strtok_r(table, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t count = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789._");
        if (count == 0 || line[count] != ' ' || !strchr(line + count, '|'))
            continue;
        memmove(end, line, count);
        end += count;
        *end++ = 0;
    }
    *end = 0;
    return table;
}

void ckafka_free_names(char *names)
{
    free(names);
}
