#include "import/importer.h"

#define IMPORTER_ROW(name, read) { #name, read },
const struct importer importers[] = { IMPORTERS(IMPORTER_ROW){ .name = NULL } };
