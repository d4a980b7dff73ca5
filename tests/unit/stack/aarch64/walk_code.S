/* walk_code.S: hand-written code of the kinds that compilers do not make. */
	.text

/* void bare_frame(void (*call)(void)): no rules, but a frame pointer. */
	.globl	bare_frame
	.type	bare_frame, %function
bare_frame:
	stp	x29, x30, [sp, #-32]!
	mov	x29, sp
	blr	x0
	ldp	x29, x30, [sp], #32
	ret
	.size	bare_frame, . - bare_frame

/* void bare_none(void (*call)(void)): no rules, and x29 is zero meanwhile. */
	.globl	bare_none
	.type	bare_none, %function
bare_none:
	stp	x29, x30, [sp, #-16]!
	mov	x29, #0
	blr	x0
	ldp	x29, x30, [sp], #16
	ret
	.size	bare_none, . - bare_none

/* void by_saved(void (*call)(void)): the CFA is found through x19. */
	.globl	by_saved
	.type	by_saved, %function
by_saved:
	.cfi_startproc
	stp	x19, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 19, -16
	.cfi_offset 30, -8
	mov	x19, sp
	.cfi_def_cfa_register 19
	and	x9, x19, #-64
	sub	sp, x9, #256
	blr	x0
	mov	sp, x19
	.cfi_def_cfa_register 31
	ldp	x19, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore 19
	.cfi_restore 30
	ret
	.cfi_endproc
	.size	by_saved, . - by_saved

/* void by_memory(void (*call)(void)): the CFA is *(sp + 16) + 16. */
	.globl	by_memory
	.type	by_memory, %function
by_memory:
	.cfi_startproc
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov	x9, sp
	.cfi_def_cfa_register 9
	sub	x10, x9, #32
	and	x10, x10, #-64
	mov	sp, x10
	str	x9, [sp, #16]
	.cfi_escape 0x0f, 0x05, 0x8f, 0x10, 0x06, 0x23, 0x10
	blr	x0
	ldr	x9, [sp, #16]
	mov	sp, x9
	.cfi_def_cfa 31, 16
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	ret
	.cfi_endproc
	.size	by_memory, . - by_memory

/* void by_unknown(void (*call)(void)): a rule that no table can keep (CFA = sp + 16 by way of "swap"). */
	.globl	by_unknown
	.type	by_unknown, %function
by_unknown:
	.cfi_startproc
	stp	x29, x30, [sp, #-16]!
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	.cfi_escape 0x0f, 0x05, 0x40, 0x8f, 0x00, 0x16, 0x22
	blr	x0
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa 31, 0
	.cfi_restore 29
	.cfi_restore 30
	ret
	.cfi_endproc
	.size	by_unknown, . - by_unknown

/* void by_signature(void (*call)(void)): the return address is signed where it is stored. */
	.globl	by_signature
	.type	by_signature, %function
by_signature:
	.cfi_startproc
	hint	#25 /* paciasp */
	.cfi_negate_ra_state
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov	x29, sp
	blr	x0
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	hint	#29 /* autiasp */
	.cfi_negate_ra_state
	ret
	.cfi_endproc
	.size	by_signature, . - by_signature

	.section .note.GNU-stack, "", @progbits
