#include "arch/elf_machine.h"

const struct elf_machine *elf_machine_of(uint16_t number)
{
	static const struct elf_machine *const machines[] = { &elf_machine_x86_64,
							      &elf_machine_aarch64 };

	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		if (machines[i]->number == number)
			return machines[i];
	return NULL;
}
